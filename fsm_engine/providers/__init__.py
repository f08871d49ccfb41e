"""What model providers send and want, one provider a module: messages to calls, results to messages."""
