"""Types and rules that everything else uses: alerts, cases, accounts, settings, ports, and guards for untrusted text."""
