#!/bin/sh
echo ${array.index} ${HOME} $${job.id}
