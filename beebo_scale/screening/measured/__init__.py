"""What is particular to tables of measurements: targets, columns that nobody needs, rows that sum up others."""
