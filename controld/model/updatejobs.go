package model

// MaxName bounds a job's name, in bytes.
const MaxName = 256
