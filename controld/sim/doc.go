// Package sim replays workloads through the production code: the same cluster.Apply and the same sched.Cycle, over a virtual clock.
//
// Only three things differ from a live cluster. Commands are applied directly instead of being proposed; the clock is the instant of
// the event at hand; and a virtual node stands for the daemons: it knows how long jobs really run, and says so in ordinary node reports.
// The core does not know that it is being simulated. Everything here is a function of its arguments and therefore repeatable.
//
// # Instants
//
// What happens at one instant happens in this order: jobs end, grace periods end, timers, arrivals in the order of the trace, then cycles
// until nothing changes. With [Setup].Tick cycles run at multiples of it only; everything else still happens when it happens.
//
// # Progress
//
// A job gets on at the rate that its trace gives it for where its workers are. From the notice of a stop on it makes none, and holds
// its room until its grace is over. Of what it had done it keeps all (the default), what it had written down at its checkpoints, or
// nothing. An attempt after the first holds its room for [Setup].Overhead, or for what the trace says of the job, before it goes on.
//
// # What policies know
//
// A policy sees what a live one would: class, request, priority, time limit, declared grace, and what has happened. It never sees how long
// a job runs, with two exceptions that its row in the table of policies declares. "Limits" gets the user's estimate of the trace
// as the job's time limit, or without one its exact length; "oracle" always the exact length. A limit that is only such a guess
// never kills: when it runs out it is raised, as an operator would.
//
// # Results
//
// [Result] is the account of one run, as `rota sim -o json` prints it; see its fields.
package sim
