package model

// MaxDependencies bounds the jobs that one job may depend on: beyond it a last job that depends on all of them says the same.
const MaxDependencies = 1024

// MaxDelay bounds the delay of a dependency: ten years.
const MaxDelay = 10 * 366 * 24 * 3600
