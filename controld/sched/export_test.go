package sched

// Names for tests, which are in a package of their own.

// Reused returns how many pages of attempts the last cycle took over from the one before: of
// candidates, and of ends.
func (d *Cache) Reused() (candidates, ends int) { return d.candidates.Reused(), d.due.Size() }
