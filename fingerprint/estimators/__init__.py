"""The maths of the detectors, without state: autoencoders, spectral forecasts, tail calibration."""
