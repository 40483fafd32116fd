"""A fleet of real hosts of which one is off and one dies, while others are drained."""
