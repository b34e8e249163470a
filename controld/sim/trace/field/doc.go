// Package field reads the fields of traces: numbers with their bounds, and times. Errors name the
// fault in few words and begin without a subject, so that callers put the name of the field before
// them.
package field
