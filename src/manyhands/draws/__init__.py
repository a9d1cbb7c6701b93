"""Sources of random numbers: by sample and step, or torch's own generator."""
