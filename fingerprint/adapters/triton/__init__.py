"""NVIDIA Triton: inference over gRPC, the control of a server, and the model repository that it serves."""
