"""The parts that come with the program and enter it by entry points, as the packages of others do."""
