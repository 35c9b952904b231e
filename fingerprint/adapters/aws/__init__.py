"""Amazon's services: SQS as a `MessageQueue`, S3 as an `ObjectStore` (`core.ports.object_store`)."""
