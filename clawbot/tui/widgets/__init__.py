"""The parts that the screens are built of."""
