// Package introspect lets jobs that can be suspended share nodes under overload, after Gandiva (Xiao
// et al., OSDI 2018): they take turns on its GPUs. It comes beside any policy, for the queues and
// accounts of which the configuration says so.
//
// # Turns
//
// A job that finds no free room starts at once, where others pause for it, so that its user soon
// sees whether it learns. From then on the jobs of the node take turns: the one that has had the
// least service there goes next, and each runs for [model.SliceMS] at least, and to its next pause
// point. A node takes on jobs up to a multiple of its GPUs: the height of the node. Suspended jobs
// keep their memory, which must fit.
//
// A job of a higher class never pauses for one of a lower class.
//
// # Where
//
// Jobs as wide as those that a node has already go there (the node's affinity), to the node with
// the least load, unless another has less by its whole number of GPUs. When GPUs come free the
// suspended jobs of their node go on before others start: that lowers the height.
//
// # Progress
//
// After SpeCon (Mao et al., 2020) jobs move where fewer are, those first that have converged last:
// see evenout.go. Among the jobs of one account, those that still learn get longer turns: see
// weights.go.
package introspect
