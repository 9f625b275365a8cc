-- Lists of jobs come by their records, so the indexes of the few that are not done do too.
DROP INDEX embedq_job_retrying;
DROP INDEX embedq_job_failed;
DROP INDEX embedq_job_cancelled;
CREATE INDEX embedq_job_retrying ON embedq_job (record, space) WHERE status = 0 AND attempts > 0;
CREATE INDEX embedq_job_failed ON embedq_job (record, space) WHERE status = 3;
CREATE INDEX embedq_job_cancelled ON embedq_job (record, space) WHERE status = 4;
