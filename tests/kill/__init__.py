"""kill -9 at many moments of a drain; the same command again must carry on."""
