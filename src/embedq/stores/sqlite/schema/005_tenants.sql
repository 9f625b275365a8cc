-- A tenant's records, in the order of lists too: what is narrowed to a tenant looks at these alone.
CREATE INDEX embedq_record_tenant ON embedq_record (collection, tenant, id) WHERE tenant IS NOT NULL;
