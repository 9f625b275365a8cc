-- A tenant's records, in the order of lists too, and records by what their attributes hold: a search that is narrowed to
-- few of them looks at these alone. Neither names `valid_to`, so that a deletion stays a HOT update; records without a
-- tenant or without attributes cost nothing here. Every search reads the whole list of what is pending for the second, so
-- that is kept short.
CREATE INDEX record_tenant ON record (collection, tenant, id) WHERE tenant IS NOT NULL;
CREATE INDEX record_attributes ON record USING gin (attributes jsonb_path_ops)
  WITH (gin_pending_list_limit = 1024) WHERE attributes <> '{}';
