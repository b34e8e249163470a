// Package noded is the node daemon. It makes the containers on its machine match the allocations of
// the controllers, and reports their states. Each worker's containers belong to a rota-shim process
// (noded/shim) that outlives the daemon, so that the daemon may be restarted, or killed, at any
// time.
//
// This package reads the settings, opens what the daemon needs (daemon.go), and wires the rooms
// (agent.go). DESIGN.md has the flow. The rooms, each with a lock of its own or none:
//   - follow: registers the node, polls the leader, counts leases, follows generations of the cluster,
//     and asks witnesses in an outage. The shim's side of a lease is noded/shim/lease.go.
//   - workers: compares allocations with containers, and starts the action that is due.
//   - reconcile: decides which action that is, as a pure function of the facts. Its function
//     exitReport turns an exit code into the report of a worker.
//   - run: carries actions out, one file for each. For pausing, the shim's side is
//     noded/shim/switch.go, and package noded/shim/jobsocket for the processes that take part.
//   - place: clears the folder of a worker and keeps its log, by one rule.
//   - report: keeps reports until the controllers confirm them.
//   - measure: progress, findings in logs, rates, and use of processors and GPUs.
//   - gpus: the GPUs and their health. mps: NVIDIA's Multi-Process Service for parts of GPUs.
//   - checkpoints: which checkpoint folders stay. checkpoint makes and copies them.
//   - jobsteps: the srun steps that programs start inside an allocation.
//   - controllers: requests to the controllers, and the proxy for local users and jobs.
//
// Below them container talks to the shims, bundle writes the files of a container, and oci computes
// its runtime spec. The journal keeps the facts that a restarted daemon needs, and logs keeps and
// serves output. progress reads progress files, and profile finds the rhythm of a GPU in samples.
// machine and gpu describe the hardware.
package noded
