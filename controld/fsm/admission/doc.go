// Package admission refuses jobs that the state machine must not take: specifications that are
// malformed or beyond its bounds, dependencies that make no sense, and jobs that their queue does
// not allow.
package admission
