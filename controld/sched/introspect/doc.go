// Package introspect lets jobs that can be suspended share nodes under overload, after Gandiva
// (Xiao et al., OSDI 2018), and weighs how far their training has come, after SpeCon (Mao et al.,
// 2020). It comes beside any policy, for the queues and accounts of which the configuration says
// so.
//
// # Turns
//
// A job that finds no free room starts at once, where others pause for it, so that its user soon
// sees whether it learns. From then on the jobs of the node take turns: the one that has had the
// least service there goes next, and each runs for [model.SliceMS] at least, and to its next pause
// point. A node takes on jobs up to a multiple of its GPUs: the height of the node. Suspended jobs
// keep their memory, which must fit. What a job had before the others came does not count.
//
// A job of a higher class never pauses for one of a lower class. Jobs that cannot pause get a
// reservation from their policy when they have waited for long: then the jobs that take turns on
// its nodes pause for them.
//
// # Where
//
// Jobs as wide as those that a node has already go there (the node's affinity), to the node with
// the least load, unless another has less by its whole number of GPUs. When GPUs come free the
// suspended jobs of their node go on before others start: that lowers the height.
//
// # Packing
//
// A job that has run alone has a profile: how much it keeps its GPU busy, its memory and its rate.
// The suspended job that uses least is tried on the GPU of which least is used. Once the rates of
// all are known they stay together if they are faster than in turns; else the one that came leaves,
// and is not tried there again for a day. A set takes turns as one.
//
// Where and when jobs move to other nodes stands in evenout.go and migrate.go.
package introspect
