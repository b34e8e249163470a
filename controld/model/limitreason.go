package model

import (
	"slices"
	"strings"
)

// LimitReasons are the reasons of limits of accounts, users and queues, by Slurm's names. The text
// of such a reason says everything.
var LimitReasons = []ReasonCode{
	"AssocGrpCpuLimit", "AssocGrpGRES", "AssocGrpGRESRunMinutes", "AssocGrpJobsLimit", "AssocGrpMemLimit",
	"AssocGrpNodeLimit", "AssocGrpSubmitJobsLimit", "AssocMaxJobsLimit", "AssocMaxSubmitJobLimit",
	"AssocMaxWallDurationPerJobLimit", "QOSGrpCpuLimit", "QOSGrpGRES", "QOSGrpGRESRunMinutes", "QOSGrpJobsLimit",
	"QOSGrpMemLimit", "QOSGrpNodeLimit", "QOSGrpSubmitJobsLimit", "QOSMaxCpuPerUserLimit", "QOSMaxGRESPerUser",
	"QOSMaxGRESRunMinutesPerUser", "QOSMaxJobsPerUserLimit", "QOSMaxMemoryPerUser", "QOSMaxNodePerUserLimit",
	"QOSMaxSubmitJobPerUserLimit", "QOSMaxWallDurationPerJobLimit",
}

// IsLimit reports whether a limit of an account, a user or a queue is the reason.
func (c ReasonCode) IsLimit() bool { return slices.Contains(LimitReasons, c) }

// WrongAccount begins the refusal of a job whose queue does not take its account, in Slurm's words.
const WrongAccount = "Invalid account or account/partition combination specified"

// NamesLimit reports whether a refusal begins with the name of a limit, perhaps after that of its
// job.
func NamesLimit(refusal string) bool {
	return slices.ContainsFunc(LimitReasons, func(c ReasonCode) bool {
		return strings.Contains(refusal, string(c)+": ")
	})
}
