package model

// Instant is a point on the log's clock, in milliseconds: the last Instant in the log plus
// monotonic time since the present leader took over. It never goes back and never depends on a wall
// clock. All deadlines are Instants.
type Instant int64

// UnixMS is wall-clock time in milliseconds since 1970. It is for display only; nothing is decided
// by it.
type UnixMS int64

// Stamp is when the leader proposed a command, on both clocks.
type Stamp struct {
	At   Instant `json:"at"`
	Wall UnixMS  `json:"wall"`
}
