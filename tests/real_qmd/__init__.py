"""The backend qmd with the real program, which `make test-qmd` installs."""
