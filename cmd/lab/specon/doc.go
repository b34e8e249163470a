// Package specon repeats the experiments of SpeCon (Mao et al., 2020): jobs that train on a few
// workers, share their processors, and report a loss. It makes them under several policies, with
// the functions with which the scheduler decides ([introspect.EvenOut], [introspect.Weights]) and
// those with which nodes classify jobs ([convergence.Meter]).
//
// # What is ours
//
// The paper prints neither how much work its jobs are nor their losses. The work of each model is
// chosen so that the paper's spread comes near its means: see models. A loss falls from 1 as
// exp(-x/tau), each model with a tau of its own. It is reported every fiftieth part of the work,
// with noise of 1 % of its range. Jobs of a worker get equal parts of it, and one that moves does
// no work for a fixed time.
package specon
