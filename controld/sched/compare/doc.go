// Package compare has the policies of other schedulers and of papers, for the simulator to compare
// with. No cluster can be given one of them: see [cluster.MayRun]. The controllers still link them,
// because logs, snapshots and clusters of earlier versions name them. Such a log is decided again
// by the same rules, and such a cluster keeps its policy.
package compare
