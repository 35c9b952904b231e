"""History -> bank: the dataset, what is excluded from it, the fit of every principal, and the gate before a bank is served."""
