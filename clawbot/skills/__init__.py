"""Skills: folders with instructions for one kind of task, which the model reads when the task comes."""
