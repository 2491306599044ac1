"""The numbers under everything: functions of plain arrays."""
