"""Features of events: encoding to codes, the vocabulary of values and their likelihoods, and peer groups."""
