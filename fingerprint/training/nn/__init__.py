"""The fitting of autoencoders in torch, the only package that imports it."""
