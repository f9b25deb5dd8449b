"""Export of chosen rows for trainers: made, checked, and written with their manifest."""
