// Package trace reads workloads and clusters for the simulator, and draws workloads from seeds. It is pure: readers take bytes that
// the caller has opened, gzip or plain, and generators take their seed.
package trace
