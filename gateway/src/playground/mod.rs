//! What each setting costs: the real engine in virtual time.
