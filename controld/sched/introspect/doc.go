// Package introspect lets jobs that can be suspended share nodes under overload, after Gandiva
// (Xiao et al., OSDI 2018). It also weighs how far their training has come, after SpeCon (Mao et
// al., 2020). It comes beside any policy, for the queues and accounts that the configuration
// names.
//
// # Turns
//
// A job that finds no free room starts at once, where others pause for it, so that its user soon
// sees whether it learns. From then on the jobs of the node take turns: the job that has had the
// least service there goes next. Each runs for [model.SliceMS] at least, and on to its next pause
// point. A node takes on jobs up to a multiple of its GPUs: the height of the node. Suspended jobs
// keep their memory, which must fit. Service that a job had before the others came does not count.
//
// A job of a higher class never pauses for one of a lower class. Jobs that cannot pause get a
// reservation from their policy when they have waited for long. Then the jobs that take turns on
// the reserved nodes pause for them.
//
// # Where
//
// A job goes to the node with the least load among those that have jobs as wide as it (the node's
// affinity). It goes elsewhere only if another node's load is less by all its GPUs. When GPUs come
// free the suspended jobs of their node go on before others start: that lowers the height.
//
// # Packing
//
// A job that has run alone has a profile: how much it keeps its GPU busy, its memory and its rate.
// The suspended job with the least use of a GPU is tried on the least used GPU. Once the rates of
// all are known, they stay together if that is faster than turns. Else the job that came leaves,
// and is not tried there again for a day. A set takes turns as one.
//
// Where and when jobs move to other nodes stands in evenout.go and migrate.go.
package introspect
