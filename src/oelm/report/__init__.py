"""Level 6: records -> arms -> statistics -> verdict -> table. Reads only records and imports no torch."""
