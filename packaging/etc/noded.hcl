# Settings of rota-noded on this machine. A line that begins with "#" and a setting shows its default.
# Restart the daemon after a change, which leaves running jobs alone: systemctl restart rota-noded

# Name of this node, unique in the cluster. Default: the host name.
# name = "gpu01"

# Journal, containers, logs and certificates. If it is another directory, it belongs to root with mode 0700, and a drop-in
# of the unit names it (systemctl edit rota-noded): ConditionPathExists=DIR/tls/cert.pem
# data_dir = "/var/lib/rota/noded"

# Where it listens: for discovery (TCP and UDP), and for readers of logs. The ports are others than those of a controller,
# 7070 to 7072, so that one machine may be both.
gossip = "0.0.0.0:7073"
http   = "0.0.0.0:7074"

# Socket of users of this machine; "" for none. That of a controller on the same machine is /run/rota/controld.sock.
# socket = "/run/rota/rota.sock"

# Gossip addresses of other daemons, and addresses of controllers, besides those that this one knows since it joined.
# join       = []
# controller = []

# A login node has a socket for its users, and runs no jobs.
# login = false

# What jobs may have. Defaults: all cores, and all memory but 5 %.
# cores  = 64
# memory = "512GiB"

# How many GPUs the node has: with fewer the daemon does not start, and systemd tries again until the driver is loaded.
# Unless it is set, the node has those that there are.
# gpus = 0

# Simulated GPUs instead of real ones.
# sim_gpus = 0

# Jobs with parts of GPUs use NVIDIA's Multi-Process Service: see "MPS" in gpu.md for what it cannot do.
# mps = false

# What constraints of jobs may name.
# label = { rack = "r1" }

# Directories that all nodes share, besides /home, /shared and /data.
# shared_path = []

# Ports for MASTER_PORT of jobs.
# ports = "20000-29999"

# What a job may take at most. Defaults: no bound of locked memory and open files; 4096 processes, and 512 for each core
# of the worker.
# max_memlock     = "64GiB"
# max_nofile      = 1048576
# max_pids        = 65536
# max_output_rate = "64MiB"
# max_logs        = "20GiB"

# Shims that are started in advance, so that workers start faster.
# warm_shims = 2

# Whether jobs may run as root, and make namespaces of users. For these the unit needs a drop-in as well (systemctl edit
# rota-noded): RestrictNamespaces=no
# allow_root_jobs       = false
# allow_user_namespaces = false

# Whether whole containers are saved by CRIU 4.3.1 or later, for jobs that ask for it: root of each such node can then act as
# root on the others. The unit needs a drop-in for this; see docs/operating.md, "Saving whole containers".
# criu         = false
# criu_program = "/usr/sbin/criu"

# Format of this daemon's own log: text or json.
# log_format = "text"

# Programs that run the containers, and where the containers' control groups are: the package and its unit set these.
# shim        = "/usr/libexec/rota/rota-shim"
# init        = "/usr/libexec/rota/rota-init"
# rota        = "/usr/libexec/rota/rota"  # what jobs have as rota, scontrol, squeue and srun
# cgroup_root = "/system.slice/rota-jobs.service"
