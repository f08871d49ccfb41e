"""Tasks, threads and slots that know no tool."""
