"""Studies of the scheduler: frozen configuration in, frozen results out, nothing printed."""
