-- Take a caller's moment, or the clock's. One that no process could read, or that keeps a job from its turn for
-- centuries, is refused.
CREATE FUNCTION moment_of(p_now timestamptz) RETURNS timestamptz LANGUAGE plpgsql AS $$
BEGIN
  IF p_now < timestamptz '1970-01-01 00:00+00' OR p_now > timestamptz '2200-01-01 00:00+00' THEN
    RAISE datetime_field_overflow USING MESSAGE = format('%s is no moment of our time', p_now);
  END IF;
  RETURN coalesce(p_now, clock_timestamp());
END
$$;
