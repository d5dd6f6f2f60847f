"""What hooks and skills share: their manifests, where they are found, and which of a workspace the user trusts."""
