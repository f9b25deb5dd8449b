"""From chosen rows to what trainers read: made, judged, and written with their manifest."""
