package explain

// entry is how the tables of this package are written.
type entry struct{ name, title, text string }

func made(kind Kind, table []entry) []Entry {
	list := make([]Entry, len(table))
	for i, e := range table {
		list[i] = Entry{Kind: kind, Name: e.name, Title: e.title, Text: e.text}
	}
	return list
}

func states() []Entry { return append(made(State, jobStates), made(State, nodeStates)...) }

var jobStates = []entry{
	{"PD", "pending", "The job waits. rota why says what for. An array is pending as long as none of its elements has begun."},
	{"CF", "configuring", "The job has its nodes and its containers are being made there. No command runs before all workers of the gang are ready. " +
		"If one cannot be made the job is tried again elsewhere, which costs it no attempt of restart."},
	{"R", "running", "The commands run. The time limit counts from here, for each attempt anew. An array, or a job of several groups, is running from " +
		"the first start of a part until the last part has ended."},
	{"CG", "completing", "The job was asked to stop, or some workers have ended and the others are being stopped. Its nodes are free again once every " +
		"container is gone; a program that does not end on its signal is killed after kill_timeout."},
	{"CD", "completed", "The job ended with exit code 0. Of an array all elements did."},
	{"F", "failed", "The program ended with another exit code than 0, or by a signal, and restart allows no further attempt. rota logs shows its " +
		"output, rota status the exit code of each worker."},
	{"TO", "timed out", "The time limit came. The program got its kill_signal, and was killed after kill_timeout. Whatever exit code it gave is kept, but the " +
		"state says that it did not end by itself. Ask for a longer time_limit, or save progress and say so with checkpoint."},
	{"OOM", "out of memory", "The kernel killed a process because the worker went beyond its memory. What lies in /dev/shm and /tmp counts as memory too. " +
		"Ask for more memory in resources."},
	{"CA", "cancelled", "Somebody cancelled the job, or what it depended on can never come (rota status says which)."},
	{"NF", "node failed", "A node was lost with the job on it, and the job may not be started once more. Loss of a node does not count as an attempt of restart."},
	{"BF", "boot failed", "The job could not be launched: an image, a path or a device was missing, again and again. rota status names the node and the cause."},
	{"DL", "past its deadline", "The deadline came before the job had ended, or came so near that it could not have ended in time."},
}

var nodeStates = []entry{
	{"up", "a node that takes work", "The node answers and gets work. rota nodes says how much of it is used: idle, mix or alloc."},
	{"idle", "a node without work", "The node answers, takes work, and nothing runs there."},
	{"mix", "a node with room", "Jobs run on the node, and some of its cores and GPUs are free."},
	{"alloc", "a full node", "All cores or all GPUs of the node are used."},
	{"down", "a node that was not heard of", "The node has not been heard of for a while. What runs there goes on until its lease ends, and only then can it be " +
		"started elsewhere: two copies of a job never run at once."},
	{"drain", "a drained node without work", "An operator has drained the node, and nothing runs there any more. rota node resume takes it back."},
	{"drng", "a drained node with work", "An operator has drained the node. What runs there ends in its own time, and nothing new is started."},
	{"drained", "a node that gets nothing new", "An operator has drained the node. What runs there ends in its own time. rota node resume takes it back."},
}

func reasons() []Entry { return made(Reason, reasonTable) }

var reasonTable = []entry{
	{"None", "not considered yet", "The job fits and starts with the next cycle of the scheduler, which comes within milliseconds."},
	{"Priority", "others come first", "There would be room, but it goes to jobs in front: te before be, then by priority, then by age. rota why names the job."},
	{"Resources", "no room now", "No node has enough cores, memory or GPUs free for one worker. It starts when something ends; rota why shows what is missing and how " +
		"much less would fit at once."},
	{"Fragmentation", "enough in total, not together", "Enough is free in the cluster, but scattered over nodes, and a worker needs it on one. Fewer GPUs in each worker, " +
		"and more workers, may fit at once."},
	{"GangIncomplete", "only some workers fit", "Some of the job's workers would fit now, and a gang starts whole or not at all. Fewer workers may start at once, and the elements of " +
		"an array start one by one."},
	{"Reservation", "the room is kept for another job", "What the job would need is reserved for one that has waited long or was passed often. A job that is sure to end before " +
		"the reservation begins may still use it, so a shorter time_limit can help."},
	{"Preempting", "others make room for it", "Jobs were asked to leave for this one, and have their grace period to save their work. It starts when they are gone."},
	{"Preempted", "it made room for another", "The job had to leave for another one, and waits to go on. What it saved is kept."},
	{"NoVictim", "no job may be preempted", "There is no room, and no running job that this one may preempt. It starts when something ends."},
	{"TELimit", "enough trial-and-error jobs", "The account has as many te jobs running as it may. It starts when one of them ends."},
	{"AccountLimit", "the account holds enough", "The account, or the user in it, holds as much as a limit allows. It starts when some of that ends. rota share shows what " +
		"accounts hold."},
	{"Backoff", "a pause after a failure", "The last attempt failed and the job waits before the next, twice as long each time, as restart says."},
	{"JobHeldUser", "held by its owner", "The job was submitted with hold or held by rota hold. rota release lets it go."},
	{"JobHeldAdmin", "held by an operator", "An operator holds the job, and only an operator can release it."},
	{"JobHoldMaxRequeue", "requeued too often", "The job asked again and again to be requeued, by ending with its checkpoint's exit code without having been asked to stop. It is held so " +
		"that it does not go round for ever. rota release tries again."},
	{"JobLaunchFailure", "could not be launched", "The containers could not be made, several times, so the job is held. rota status has the cause and the node. rota release tries again."},
	{"NodeDown", "a node that it needs is down", "Only nodes that are down could run it. It starts when one is back."},
	{"ReqNodeNotAvail", "a node that it needs takes no work", "The nodes that could run it, or that it asks for, are down or drained, or are avoided because it failed there. rota nodes shows which, and why."},
	{"BadConstraints", "no node can ever run it", "No node of the cluster has what one worker needs, even if all were empty, or the cluster could never hold all workers at once. Ask for " +
		"less in one worker, for fewer workers, or check constraint, nodes and features."},
	{"Dependency", "waits for other jobs", "What the job depends on has not come yet: other jobs (dependency) or other groups of the same job (depends_on). rota status lists them."},
	{"DependencyNeverSatisfied", "what it waits for can never come", "A job that had to succeed failed, say. The job is cancelled, or held when on_dependency_failure is hold; rota release then " +
		"starts it all the same."},
	{"BeginTime", "its time has not come", "The job has a begin, or a dependency with a delay, and is considered from then on."},
	{"JobArrayTaskLimit", "enough elements run", "As many elements of the array run as max_parallel allows."},
	{"Members", "its parts run", "An array, or a job of several groups, never runs itself: its elements or groups do. It ends with the last of them."},
	{"DeadLine", "past its deadline", "The deadline passed before the job had ended, or left too little time for it. It ends in state DL."},
	{"NonZeroExitCode", "the program failed", "The program ended with another exit code than 0."},
	{"OutOfMemory", "beyond its memory", "The kernel killed a process of the job because the worker went beyond its memory, /dev/shm and /tmp included."},
	{"TimeLimit", "its time is over", "An attempt ran as long as time_limit allows, and was stopped."},
}
