"""Problems × libraries: seconds of a sweep, memory and time to a target beside other libraries; see ``__main__``."""
