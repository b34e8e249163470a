// Package sim replays workloads through the production code: the same Machine.Apply and the same
// sched.Cycle, over a virtual clock.
//
// Only three things differ from a live cluster. Commands are applied directly instead of being
// proposed. The clock is the instant of the current event. Virtual nodes stand for the daemons:
// they know how long jobs really run, and send ordinary node reports. The core cannot tell that it
// is being simulated. Everything here is a function of its arguments, and therefore repeatable.
//
// # Instants
//
// At one instant, jobs end first, then grace periods end, then timers, then jobs arrive in the
// order of the trace. Then cycles run until nothing changes. With [Setup].Tick cycles run at its
// multiples only; everything else still happens at its own instant.
//
// # Progress
//
// A job makes progress at the rate that its trace gives for the places of its workers. From the
// notice of a stop on it makes none, and holds its capacity until its grace period is over. It
// keeps all of its work (the default), the work of its last checkpoint, or nothing. Each later
// attempt holds its capacity for [Setup].Overhead, or for the restart cost of the trace, before it
// continues.
//
// # What policies know
//
// A policy sees the same as a live one: class, request, priority, time limit, declared grace
// period, and past events. It does not see how long a job runs, with two exceptions that its row in
// the table of policies declares. "Limits" gets the estimate of the trace as the job's time limit,
// or the exact length if there is none. "Oracle" always gets the exact length. A limit that is only
// an estimate never kills a job: when it runs out it is raised, as an operator would do.
//
// # Results
//
// [Result] describes one run, as `rota sim -o json` prints it.
package sim
