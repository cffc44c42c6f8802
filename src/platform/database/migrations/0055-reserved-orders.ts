import type { Migration } from '../migrations.ts'

/**
 * An order id that has a payment is reserved for no other. A statement that reserves sees the payments of the moment in
 * which it began, and then may wait for a reservation that is dropped as its payment is written: it would take the order
 * id, and a provider would be asked for a second invoice that nobody gets. A trigger looks anew when the row stands.
 */
export const reservedOrders: Migration = {
  name: '0055-reserved-orders',
  async up(sql) {
    await sql`
      create function refuse_used_order () returns trigger language plpgsql as $$
      begin
        if exists (select from payments where merchant_id = new.merchant_id and order_id = new.order_id) then
          raise unique_violation using
            constraint = 'payments_merchant_id_order_id_key', message = 'the order id has a payment';
        end if;
        return null;
      end $$`
    await sql`
      create trigger payment_reservations_free after insert on payment_reservations
      for each row execute function refuse_used_order()`
  }
}
