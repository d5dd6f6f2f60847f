"""The profile `lines`: every line is weighed by its words, its neighbours, its meaning, who says it and when."""
