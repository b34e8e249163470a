// Package compare has the policies of other schedulers and of papers, for the simulator to compare
// with. No cluster can be given one of them: see [cluster.MayRun]. They are still linked into the
// controllers, because logs, snapshots and clusters of earlier versions name them: such a log is
// decided again by the same rules, and such a cluster goes on with the policy that it has.
package compare
