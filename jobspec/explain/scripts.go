package explain

// scriptCodes concern batch scripts and the options of sbatch.
var scriptCodes = []entry{
	{"SB-001", "not a batch script", "A script is text in UTF-8, at most 1 MiB, and its first line is #! with the program that runs it, such as #!/bin/bash."},
	{"SB-002", "a directive too late", "Directives count up to the first line that is neither empty nor a comment. Behind it they would say nothing, so they are refused. Write ##SBATCH to switch one off."},
	{"SB-003", "a directive that cannot be read", "A line #SBATCH or #ROTA has flags and their values, with blanks between. Quotes keep blanks within a value; a line does not go on in the next."},
	{"SB-004", "no such flag", "The flags are those of sbatch. rota help submit lists the ones that do something; others that sbatch has are told by their name."},
	{"SB-005", "a flag cut too short", "The beginning of a flag's name stands for the flag when it fits one only, and this fits several."},
	{"SB-006", "a value too few or too many", "Some flags take a value, some may, and some do not."},
	{"SB-007", "a value that the flag does not take", "The message says what the flag takes. Times are as in Slurm: 30 is 30 minutes; memory without a unit is in MiB."},
	{"SB-008", "flags that do not go together", "Two flags say the same in different ways, or numbers that cannot all be true. On the command line, in variables and in the script one may each be given: the stronger place wins."},
	{"SB-009", "a flag that is not honoured", "Slurm has this flag or value, and the job would not do what it says, so it is refused instead of passed over. The message says what to write instead. rota convert prints the job without it."},
	{"SB-010", "a step that cannot be started", "There is no batch step that starts others with srun. A script on one node runs once. With several tasks it may prepare its environment and start one step on all its tasks; every rank then " +
		"runs the script, with the command in the place of srun. Several steps, steps in loops, steps on a part of the nodes, mpirun on several nodes, and work behind the step are not possible in a script."},
	{"SB-011", "a heterogeneous job", "Components of different shape that start together are the groups of a job file with gang_scope = \"job\"."},
	{"SB-012", "arguments for no shell", "Arguments behind a script's name become $1 and so on in shell scripts. Scripts for other programs cannot be given any."},
	{"SB-090", "warning: a flag without effect", "The flag asks for something that Rota does by itself, leaves to the system, or does not have, and the job does its work without it."},
	{"SB-091", "warning: done in another way", "What the flag or the line asks for is done, though not exactly as in Slurm; the message says how."},
	{"SB-092", "warning: looks like a directive", "Only lines that begin with #SBATCH or #ROTA are directives: without a blank before or behind the #, and in capital letters."},
	{"SB-093", "warning: done by every rank", "The script is run by every rank (see SB-010), so what it does before its step happens many times, and at the same time. Copying or deleting files is better done in a job of its own."},
	{"SB-094", "warning: could not be followed", "The script uses something whose meaning depends on what is known only when it runs. It was taken as the message says."},
}
