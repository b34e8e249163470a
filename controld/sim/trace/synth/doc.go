// Package synth makes workloads from a seed, and changes workloads that were read.
//
// [ParseGenerator] describes a workload that is drawn. It is FitGpp's ([PaperModel]), a mix of
// independent arrivals ([DefaultMix]), a member of a [Family], or one of the experiments of
// [Kubeflow]. [LabelTE], [NoiseTE], [DrawGrace], [DrawSaves], [DrawEstimates], [Redraw], [Pace] and
// [Inflate] change a trace.
//
// A job depends on the seed and its number alone. So workloads that differ in one parameter are
// alike in everything else.
package synth
