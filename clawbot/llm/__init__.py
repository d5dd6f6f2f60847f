"""Language models behind one streaming interface: litellm, the offline model and the scripted model."""
